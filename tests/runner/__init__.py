"""What tests/run does once the packages are there."""
