"""Folders of the user's own robots as packages: ``flashnerd_tasks.own.robots.NAME.task`` is ``robots/NAME/task.py``.

Importing this package imports none of them.
"""

from flashnerd_ext.robots.own import own_folders

__path__ = [*__path__, *dict.fromkeys(str(folder.parent) for folder in own_folders())]
