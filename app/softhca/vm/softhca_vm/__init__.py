# SPDX-License-Identifier: BSD-3-Clause
"""A QEMU guest with the distribution's unmodified kernel above softhca's PCI front."""
