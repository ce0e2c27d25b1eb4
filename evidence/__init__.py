"""Claims of this project about the paper and about itself: one folder for each study, none of it in the wheel."""

from gladstorm.jobs.provenance import follow

follow(__name__)  # results of a study depend on its own source too
