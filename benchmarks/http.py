def table():
    pass
