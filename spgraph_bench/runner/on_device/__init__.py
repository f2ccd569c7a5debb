"""What a worker does on its device, in stages: prepare, check, time. See :mod:`.service`, which is called."""
