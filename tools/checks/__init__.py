"""The parts of tools/check."""
