"""The parts of scripts/measure."""
