"""Settings of a training, run folders, recipes, teachers, demonstrations, imported policies and the gate."""
