// SPDX-License-Identifier: Apache-2.0
#include "libraries.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstring>
#include <string>

namespace qkv {
namespace {

using Count = int (*)();

std::atomic<Region> region{nullptr};
std::atomic<Count> openmp{nullptr}, openblas{nullptr};
std::atomic<unsigned long long> known_loads{0};

struct Found {
    unsigned long long loads = 0;
    bool news = false;
    std::string openmp, openblas;  // paths
};

// Only names: to open a library in here is to wait for a lock that another thread may hold while it waits for ours.
int look_at(dl_phdr_info* info, size_t, void* into) {
    Found& found = *static_cast<Found*>(into);
    found.loads = info->dlpi_adds;
    if (found.loads == known_loads.load()) return 1;
    found.news = true;
    const char* slash = std::strrchr(info->dlpi_name, '/');
    const char* name = slash ? slash + 1 : info->dlpi_name;
    if (found.openmp.empty() && std::strncmp(name, "libgomp", 7) == 0) found.openmp = info->dlpi_name;
    if (found.openblas.empty() && std::strstr(name, "openblas")) found.openblas = info->dlpi_name;
    return 0;
}

// The handle is never closed: what it leads to stays where it is.
void* handle_of(const std::string& path) { return path.empty() ? nullptr : dlopen(path.c_str(), RTLD_NOLOAD | RTLD_LAZY); }

Count openblas_count(void* library) {
    // as NumPy's wheels name it, SciPy's, and OpenBLAS itself
    for (const char* name : {"scipy_openblas_get_num_threads64_", "scipy_openblas_get_num_threads",
                             "openblas_get_num_threads64_", "openblas_get_num_threads"})
        if (void* count = dlsym(library, name)) return reinterpret_cast<Count>(count);
    return nullptr;
}

}  // namespace

Libraries libraries() {
    Found found;
    dl_iterate_phdr(look_at, &found);
    if (found.news) {
        if (void* library = region.load() ? nullptr : handle_of(found.openmp)) {
            openmp.store(reinterpret_cast<Count>(dlsym(library, "omp_get_max_threads")));
            region.store(reinterpret_cast<Region>(dlsym(library, "GOMP_parallel")));
        }
        if (void* library = openblas.load() ? nullptr : handle_of(found.openblas)) openblas.store(openblas_count(library));
        known_loads.store(found.loads);
    }
    return {region.load(), openmp.load(), openblas.load()};
}

}  // namespace qkv
