"""Sweeps: many matrices x problems x variants x types, into one file of records, resumable.

In the order of use: ``config`` reads what is to be run, ``inputs`` finds the matrices, ``plan`` makes cells of both,
``estimate`` says what they take, ``journal`` is the file, ``station`` measures, ``local`` goes through a plan.
"""
