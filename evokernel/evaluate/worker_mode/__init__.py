"""Worker mode: a candidate's own host code runs, in a sandboxed worker."""
