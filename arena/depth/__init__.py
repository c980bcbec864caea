"""Strategic depth of a mech preset: double oracle over scripted tactics, equilibrium play, worth of each mechanic."""
