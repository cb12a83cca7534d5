"""A queue of searches that share budgets of time and money, one session at a time, through kills and reboots."""
