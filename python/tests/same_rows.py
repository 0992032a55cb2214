"""A dataset against a table that another program has written: the same rows, of the same types, however they are read."""

import pyarrow

ROW = "row"  # the column that says which row of the table it is


def numbered(table):
    return table.append_column(ROW, pyarrow.array(range(len(table)), pyarrow.int64()))


def rows_of(dataset, **options):
    batches = list(dataset.iter_batches(batch_format="pyarrow", **options))
    return pyarrow.concat_tables(batches).combine_chunks() if batches else dataset.schema().empty_table()


def assert_same(dataset, table, batch_size=7):
    """`table` has the column that numbered() adds."""
    whole = rows_of(dataset, batch_size=batch_size)
    assert_equal(whole, table)
    assert dataset.schema().equals(whole.schema) or not len(table), "what is announced is what comes"
    for name in table.column_names:
        assert_equal(rows_of(dataset.select_columns([name]), batch_size=None), table.select([name]))
    some = table.column_names[:-3:-1]
    assert_equal(rows_of(dataset.select_columns(some), batch_size=256), table.select(some))
    shuffled = rows_of(dataset.random_shuffle(seed=1), batch_size=batch_size)
    assert len(table) < 10 or not shuffled[ROW].equals(whole[ROW])
    assert_equal(shuffled, table, sorted(range(len(table)), key=shuffled[ROW].to_pylist().__getitem__))


def assert_equal(got, wanted, order=None):
    """`order`: the places in which `got` has the rows. Arrow cannot sort all types."""
    assert got.column_names == wanted.column_names
    for name in wanted.column_names:
        mine, theirs = plain(got[name]), plain(wanted[name])
        assert mine.type == theirs.type, name
        values = mine.to_pylist()
        assert (values if order is None else [values[place] for place in order]) == theirs.to_pylist(), name
    for column in got.columns:
        column.validate(full=True)


def plain(column):
    """Dictionaries by what they mean: their indices may differ."""
    if isinstance(column, pyarrow.ChunkedArray):
        column = column.combine_chunks()
    if pyarrow.types.is_dictionary(column.type):
        return column.dictionary_decode()
    return column
