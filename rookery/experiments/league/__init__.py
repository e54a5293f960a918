"""Leagues: populations of policies that are trained against mixtures of each other and judged by matches, in one folder."""
