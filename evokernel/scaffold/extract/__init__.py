"""From a kernel that exists to a project: one recorded call, its host function as a seed."""
