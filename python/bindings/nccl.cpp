#include "python/bindings/nccl.h"

#include <torch/csrc/utils/pybind.h>

#include <utility>

#include "paceline/comm/watched_nccl.h"

namespace paceline::python {

namespace py = pybind11;
using Nccl = c10d::ProcessGroupNCCL;

// What holds torch's own classes of groups, and so those derived from them: the last one ends the group without the
// GIL, which threads that the group waits for may want (IntrusivePtrNoGilDestructor in torch's c10d/init.cpp).
template <class T>
class EndsWithoutGil {
 public:
  EndsWithoutGil() = default;
  explicit EndsWithoutGil(T* object) : object_(c10::intrusive_ptr<T>::unsafe_steal_from_new(object)) {}
  EndsWithoutGil(c10::intrusive_ptr<T> object) : object_(std::move(object)) {}  // NOLINT(google-explicit-constructor)
  EndsWithoutGil(const EndsWithoutGil&) = default;
  EndsWithoutGil(EndsWithoutGil&&) noexcept = default;
  EndsWithoutGil& operator=(const EndsWithoutGil&) = default;
  EndsWithoutGil& operator=(EndsWithoutGil&&) noexcept = default;
  ~EndsWithoutGil() {
    if (!object_ || PyGILState_Check() == 0) return;
    const py::gil_scoped_release without_gil;
    object_.reset();
  }

  T* get() const { return object_.get(); }
  T* operator->() const { return object_.get(); }
  T& operator*() const { return *object_; }

 private:
  c10::intrusive_ptr<T> object_;
};

}  // namespace paceline::python

PYBIND11_DECLARE_HOLDER_TYPE(T, paceline::python::EndsWithoutGil<T>, true)

namespace paceline::python {

// No module has it under a name: programs are to see torch's own.
void bind_watched_nccl() {
  py::module_::import("torch.distributed");  // has the class that this one is derived from
  py::class_<comm::WatchedNccl, EndsWithoutGil<comm::WatchedNccl>, Nccl>(py::handle(), "ProcessGroupNCCL");
}

py::object make_nccl(const c10::intrusive_ptr<c10d::Store>& store,
                     const c10::intrusive_ptr<c10d::Backend::Options>& nccl, const comm::BackendOptions& options) {
  EndsWithoutGil<comm::WatchedNccl> made;
  {
    const py::gil_scoped_release without_gil;
    made = comm::make_nccl(store, c10::dynamic_intrusive_pointer_cast<Nccl::Options>(nccl), options);
  }
  return py::cast(made);
}

}  // namespace paceline::python
