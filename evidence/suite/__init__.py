"""When does it help to normalize, to clip, or to reduce variance? Common methods on the problems of the suite."""
