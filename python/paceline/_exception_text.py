"""The text of an exception, whatever its class does."""


def text_of(exception: BaseException) -> str:
    """str(exception), or a sentence where that raises."""
    try:
        return str(exception)
    except BaseException as error:
        return f"(its text cannot be made: {type(error).__name__})"
