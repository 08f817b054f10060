"""From a URDF, MJCF or USD of the user's to a folder that every command works on: ``scripts/new_robot.py``.

read (:mod:`.source`) -> check (:mod:`.check`) -> choose (:mod:`.choices`) -> asset -> measure (:mod:`.probe`) ->
default pose (:mod:`.pose`) -> write (:mod:`.write`). Whatever is wrong with the file is a :class:`.findings.Finding`.
"""
