"""What all packages use: parts and their rules, texts, constants, statistics, references."""
