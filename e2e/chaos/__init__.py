"""A bounded storm: kills, cut lines, stops and faults at seeded random moments, and nothing may be lost."""
