"""Data sets: their rows checked, measured, collated, fetched and made. `gym rollouts` reads its inputs through here."""
