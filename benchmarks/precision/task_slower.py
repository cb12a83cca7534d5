import torch
from own import own_launcher, rows

task = rows("softmax", lambda x, **_: torch.softmax(x, dim=1), own_launcher("slower.py", AGAIN=0), (4096, 4096))
