"""What this project claims about the paper and about itself: one folder for each study, none of it in the wheel."""
