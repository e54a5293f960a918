/* A stand-in for PX4's header of this name, as far as the module uses it. */
#pragma once
#include <stdint.h>
namespace px4 {
struct wq_configurations { static constexpr int nav_and_controllers = 0; };
class ScheduledWorkItem {
public:
	ScheduledWorkItem(const char *, int) {}
	virtual ~ScheduledWorkItem() = default;
	uint32_t interval = 0;
	virtual void Run() = 0;
protected:
	void ScheduleOnInterval(uint32_t us) { interval = us; }
	void ScheduleClear() {}
};
}
