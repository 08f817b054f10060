"""Training data: samplers, engines that step the analytical simulator, shards and their reader.

Reading (:mod:`flashnerd_ext.data.dataset`) needs numpy and h5py only.
"""
