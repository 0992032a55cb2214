"""tqdm's bars in workers: rank 0's outermost bar is the driver's progress line, and stays as one line when it is done."""


def connect() -> None:
    """To be called before the train loop makes a bar; does nothing where tqdm is not installed."""
    try:
        from tqdm.std import tqdm
    except ImportError:
        return
    from paceline._native import native

    display, close = tqdm.display, tqdm.close

    def show(self, msg=None, pos=None):
        if getattr(self, "_is_closing", False):
            return native.get_context().get_world_rank() == 0 and display(self, msg, pos)
        if not self.pos and msg is None:
            values = self.format_dict
            rate = values["rate"] or (self.n / values["elapsed"] if values["elapsed"] else 0)
            native.show_progress((self.desc or "").removesuffix(": ") or "progress", int(self.n), int(self.total or 0), rate)
        return True

    def end(self):
        self._is_closing = True
        close(self)

    tqdm.display, tqdm.close = show, end
