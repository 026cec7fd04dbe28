"""The commands of ``hiertree labels``: from landmark ids to a hierarchy that people have reviewed."""
