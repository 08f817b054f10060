"""One model step, one file a stage: contacts -> frame -> stream -> guard -> write.

``integrate`` says how much simulated time a step covers; :mod:`flashnerd_ext.solver.solver_flashnerd` is the list of
the stages. Importing this package starts no simulator.
"""
