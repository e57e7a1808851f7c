"""Workflows order activities and wait; they decide nothing else.

This file imports none of them: the sandbox executes it again for each workflow that it creates.
"""
