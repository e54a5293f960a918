/* A stand-in for PX4's header of this name, as far as the module uses it. */
#pragma once
#include <atomic>
#define __EXPORT
#define MODULE_NAME "rookery"
#define PX4_OK 0
#define PX4_ERROR (-1)
#define PRINT_MODULE_DESCRIPTION(x)
#define PRINT_MODULE_USAGE_NAME(x, y)
#define PRINT_MODULE_USAGE_COMMAND(x)
#define PRINT_MODULE_USAGE_COMMAND_DESCR(x, y)
#define PRINT_MODULE_USAGE_DEFAULT_COMMANDS()
static constexpr int task_id_is_work_queue = -2;
template <typename T> class ModuleBase {
public:
	static int main(int, char **) { return 0; }
	static bool is_running() { return _object.load() != nullptr; }
	static T *get_instance() { return _object.load(); }
protected:
	bool should_exit() const { return false; }
	void exit_and_cleanup() {}
	static struct Object { T *p = nullptr; T *load() { return p; } void store(T *to) { p = to; } } _object;
	static int _task_id;
};
template <typename T> typename ModuleBase<T>::Object ModuleBase<T>::_object;
template <typename T> int ModuleBase<T>::_task_id = -1;
