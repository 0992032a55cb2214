"""Options of readers: pyarrow.csv's, and what folders say; against pyarrow."""

import pyarrow
import pyarrow.csv
import pytest

import paceline.data
from paceline.data.datasource import Partitioning
from same_rows import assert_equal, rows_of

read, parse, convert = pyarrow.csv.ReadOptions, pyarrow.csv.ParseOptions, pyarrow.csv.ConvertOptions

CSV = {
    "no header": ("1,x\n2,y\n", {"read_options": read(autogenerate_column_names=True)}),
    "names": ("1,x\n2,y\n", {"read_options": read(column_names=["a", "b"])}),
    "lines before the header": ("by us\n\na,b\n1,2\n", {"read_options": read(skip_rows=2)}),
    "lines behind the header": ("a,b\nunit,m\n1,2\n", {"read_options": read(skip_rows_after_names=1)}),
    "names behind lines": ("by us\n1,2\n", {"read_options": read(skip_rows=1, column_names=["a", "b"])}),
    "another quote": ("a;b\n'x; y';1\n", {"parse_options": parse(delimiter=";", quote_char="'")}),
    "no quotes": ('a,b\n"x,1\n', {"parse_options": parse(quote_char=False)}),
    "escapes": ("a,b\nx\\,y,1\n", {"parse_options": parse(escape_char="\\")}),
    "line breaks in values": ('a,b\n"x\ny",1\n', {"parse_options": parse(newlines_in_values=True)}),
    "empty lines": ("a\n1\n\n2\n", {"parse_options": parse(ignore_empty_lines=False)}),
    "nulls": ("a,b\n-,x\n1,-\n", {"convert_options": convert(null_values=["-"], strings_can_be_null=True)}),
    "truth values": ("a\nyes\nno\n", {"convert_options": convert(true_values=["yes"], false_values=["no"])}),
    "a decimal comma": ("a;b\n1,5;2\n", {"parse_options": parse(delimiter=";"), "convert_options": convert(decimal_point=",")}),
    "dates": ("a\n24/12/2020\n", {"convert_options": convert(timestamp_parsers=["%d/%m/%Y", pyarrow.csv.ISO8601])}),
    "quoted nulls": ('a,b\n"",x\n,y\n', {"convert_options": convert(strings_can_be_null=True, quoted_strings_can_be_null=False)}),
    "columns": ("a,b\n1,x\n", {"convert_options": convert(include_columns=["b"], column_types={"b": pyarrow.large_string()})}),
}


@pytest.mark.parametrize("case", CSV)
def test_csv_options_mean_what_they_mean_to_pyarrow(tmp_path, case):
    text, options = CSV[case]
    (tmp_path / "a.csv").write_text(text)
    path = str(tmp_path / "a.csv")
    assert_equal(rows_of(paceline.data.read_csv(path, **options)), pyarrow.csv.read_csv(path, **options))


def test_csv_options_of_files_of_several_blocks(tmp_path):
    lines = "".join(f"'{row}';'text; of {row}';-\n" for row in range(400_000))
    (tmp_path / "a.csv").write_text("one line\na;b;c\n" + lines)
    options = {"read_options": read(skip_rows=1), "parse_options": parse(delimiter=";", quote_char="'"),
               "convert_options": convert(null_values=["-"], strings_can_be_null=True)}
    dataset = paceline.data.read_csv(str(tmp_path / "a.csv"), **options)
    assert dataset.num_blocks() > 1
    assert_equal(rows_of(dataset), pyarrow.csv.read_csv(str(tmp_path / "a.csv"), **options))


def test_a_state_of_other_csv_options_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("a\n1\n-\n")
    one, other = (paceline.data.read_csv(str(tmp_path / "a.csv"), convert_options=convert(null_values=nulls)).iterator()
                  for nulls in (["-"], ["-", "1"]))
    with pytest.raises(Exception, match="state"):
        other.load_state_dict(one.state_dict())


@pytest.mark.parametrize("options, hint", [
    ({"parse_options": parse(invalid_row_handler=lambda row: "skip")}, "on_error"),
    ({"read_options": read(encoding="latin1")}, "UTF-8"),
    ({"convert_options": convert(auto_dict_encode=True)}, "auto_dict_encode"),
])  # fmt: skip
def test_csv_options_that_are_not_known_are_errors(tmp_path, options, hint):
    with pytest.raises(NotImplementedError, match=hint):
        paceline.data.read_csv(str(tmp_path / "a.csv"), **options)


def test_csv_options_of_another_kind_are_errors(tmp_path):
    with pytest.raises(TypeError, match="not a dict"):
        paceline.data.read_csv(str(tmp_path / "a.csv"), read_options={"skip_rows": 1})


@pytest.fixture
def by_place(tmp_path):
    for year, country in ((2020, "chad"), (2021, "costa rica")):
        folder = tmp_path / "data" / str(year) / country
        folder.mkdir(parents=True)
        (folder / "a.csv").write_text(f"x\n{year}\n")
    return str(tmp_path / "data")


def test_folders_have_names_that_are_given(by_place):
    named = Partitioning("dir", base_dir=by_place, field_names=["year", "country"])
    dataset = paceline.data.read_csv(by_place, partitioning=named)
    rows = [{"x": 2020, "year": 2020, "country": "chad"}, {"x": 2021, "year": 2021, "country": "costa rica"}]
    assert dataset.take_all() == rows
    assert dataset.filter(expr="year > 2020").take_all() == rows[1:]
    as_text = paceline.data.read_csv(by_place, partitioning=Partitioning(
        "dir", base_dir=by_place, field_names=["year", "country"], field_types={"year": str}))
    assert [row["year"] for row in as_text.take_all()] == ["2020", "2021"]


def test_folders_above_base_dir_do_not_count(tmp_path):
    folder = tmp_path / "kind=a" / "data" / "year=2020"
    folder.mkdir(parents=True)
    (folder / "a.csv").write_text("x\n1\n")
    path = str(tmp_path / "kind=a")
    assert paceline.data.read_csv(path, partitioning="hive").columns() == ["x", "kind", "year"]
    below = Partitioning("hive", base_dir=path, field_types={"year": pyarrow.float32()})
    dataset = paceline.data.read_csv(path, partitioning=below)
    assert dataset.columns() == ["x", "year"] and dataset.schema().base_schema.field("year").type == pyarrow.float32()


def test_folders_that_do_not_fit_are_errors(by_place):
    with pytest.raises(ValueError, match="needs field_names"):
        Partitioning("dir", base_dir=by_place)
    with pytest.raises(Exception, match="2 folders below .*field_names has 1"):
        paceline.data.read_csv(by_place, partitioning=Partitioning("dir", base_dir=by_place, field_names=["year"])).schema()
    with pytest.raises(Exception, match="country=chad, which is not of the type int64"):
        paceline.data.read_csv(by_place, partitioning=Partitioning(
            "dir", base_dir=by_place, field_names=["year", "country"], field_types={"country": int})).schema()


def test_filters_by_expression_take_nothing_of_functions():
    with pytest.raises(ValueError, match="calls no function: leave out on_error"):
        paceline.data.range(3).filter(expr="id > 1", on_error="skip")
    with pytest.raises(TypeError, match="'concurency'"):
        paceline.data.range(3).filter(expr="id > 1", concurency=2)


def test_rename_columns_wants_a_name_for_each():
    dataset = paceline.data.from_arrow(pyarrow.table({"a": [1], "b": [2]}))
    assert dataset.rename_columns(["x", "y"]).columns() == ["x", "y"]
    with pytest.raises(ValueError, match="1 names for 2 columns"):
        dataset.rename_columns(["x"])


def test_frames_can_be_written_to_where_batches_are_copies():
    def in_place(frame):
        frame["id"].array._ndarray[:] = 7
        return frame

    dataset = paceline.data.range(2)
    assert dataset.map_batches(in_place, batch_format="pandas", zero_copy_batch=False).take_all() == [{"id": 7}] * 2
