SLOW_S = 60  # of a machine that others use too
