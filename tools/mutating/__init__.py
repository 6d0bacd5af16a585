"""What ``make mutants`` is made of: changed places of a file, tests run in forks, reasons for what survives."""
