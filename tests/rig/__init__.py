# SPDX-License-Identifier: BSD-3-Clause
"""Runs softhca and testpmd from Python: programs, wires, and the stack made of them."""
