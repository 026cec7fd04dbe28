"""What is asked for and by which rules: metric names, rules, protocols, and the card that a result prints."""
