"""What our cable is measured against, from Debian's packages."""
