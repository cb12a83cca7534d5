from own import add, own_launcher

task = add(own_launcher("add.py"), (1024, 1024))
