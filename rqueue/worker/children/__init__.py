"""Subprocesses that run handlers of kind "process": the pool in the worker, the program of a
subprocess, and their messages.
"""
