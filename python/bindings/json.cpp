#include "python/bindings/json.h"

namespace paceline::python {
namespace {

namespace py = pybind11;

// How deep a value may be nested: what contains itself is found so.
constexpr int kDepth = 100;

std::string type_of(const py::handle& object) {
  return py::str(py::type::handle_of(object).attr("__name__"));
}

[[noreturn]] void refuse(const std::string& place, const std::string& what) {
  PyErr_SetString(PyExc_TypeError, (place + " " + what).c_str());
  throw py::error_already_set();
}

Json integer(const py::handle& object, const std::string& place) {
  int overflow = 0;
  const int64_t number = PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
  if (overflow == 0) return number;
  const uint64_t large = overflow > 0 ? PyLong_AsUnsignedLongLong(object.ptr()) : 0;
  if (overflow < 0 || PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    refuse(place, "is an integer of more than 64 bits");
  }
  return large;
}

// In UTF-8, where a lone surrogate has three bytes, which to_python() reads.
std::string text_of(const py::handle& object) {
  Py_ssize_t size = 0;
  if (const char* text = PyUnicode_AsUTF8AndSize(object.ptr(), &size)) return {text, static_cast<size_t>(size)};
  PyErr_Clear();
  const auto bytes =
      py::reinterpret_steal<py::object>(PyUnicode_AsEncodedString(object.ptr(), "utf-8", "surrogatepass"));
  if (!bytes) throw py::error_already_set();
  return bytes.cast<std::string>();
}

std::string name_of(const py::handle& key, const std::string& place) {
  const py::str name(key);
  Py_ssize_t size = 0;
  if (const char* text = PyUnicode_AsUTF8AndSize(name.ptr(), &size)) return {text, static_cast<size_t>(size)};
  PyErr_Clear();
  refuse(place, "has the name " + py::repr(name).cast<std::string>() + ", which cannot be written in UTF-8; rename it");
}

// Bytes that are no text are what they are in Python's file names.
py::object python_text(const std::string& text) {
  PyObject* made = PyUnicode_DecodeUTF8(text.data(), std::ssize(text), "surrogatepass");
  if (made == nullptr) {
    PyErr_Clear();
    made = PyUnicode_DecodeUTF8(text.data(), std::ssize(text), "surrogateescape");
  }
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

Json convert(const py::handle& object, const std::string& place, int depth) {
  if (depth > kDepth) refuse(place, "is nested too deeply; does it contain itself?");
  if (object.is_none()) return nullptr;
  if (py::isinstance<py::bool_>(object)) return object.cast<bool>();
  if (py::isinstance<py::int_>(object)) return integer(object, place);
  if (py::isinstance<py::float_>(object)) return object.cast<double>();
  if (py::isinstance<py::str>(object)) return text_of(object);
  if (py::isinstance<py::dict>(object)) {
    Json json = Json::object();
    for (const auto& [key, value] : py::reinterpret_borrow<py::dict>(object)) {
      const std::string name = name_of(key, place);
      json[name] = convert(value, place + "['" + name + "']", depth + 1);
    }
    return json;
  }
  if (py::isinstance<py::list>(object) || py::isinstance<py::tuple>(object)) {
    Json json = Json::array();
    for (const auto& value : object)
      json.push_back(convert(value, place + "[" + std::to_string(json.size()) + "]", depth + 1));
    return json;
  }
  if (py::hasattr(object, "dtype") && py::hasattr(object, "ndim") && object.attr("ndim").cast<int>() == 0) {
    const py::object item = object.attr("item")();
    if (!py::type::handle_of(item).is(py::type::handle_of(object))) return convert(item, place, depth + 1);
  }
  if (py::isinstance<py::type>(object) || !py::hasattr(object, "__fspath__")) {
    refuse(place, "is a " + type_of(object) + "; allowed: numbers, strings, booleans, None, lists and dicts of them");
  }
  return py::str(object.attr("__fspath__")()).cast<std::string>();
}

}  // namespace

Json to_json(const py::handle& object, const std::string& place) {
  return convert(object, place, 0);
}

py::object to_python(const Json& value) {
  switch (value.type()) {
    case Json::value_t::boolean:
      return py::bool_(value.get<bool>());
    case Json::value_t::number_integer:
      return py::int_(value.get<int64_t>());
    case Json::value_t::number_unsigned:
      return py::int_(value.get<uint64_t>());
    case Json::value_t::number_float:
      return py::float_(value.get<double>());
    case Json::value_t::string:
      return python_text(value.get_ref<const std::string&>());
    case Json::value_t::array: {
      py::list list;
      for (const Json& item : value) list.append(to_python(item));
      return list;
    }
    case Json::value_t::object: {
      py::dict dict;
      for (const auto& [name, item] : value.items()) dict[python_text(name)] = to_python(item);
      return dict;
    }
    default:
      return py::none();
  }
}

}  // namespace paceline::python
