"""How tight is each bound? The worst problem of all eighteen regimes, found by search, at three horizons."""
