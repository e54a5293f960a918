/* A stand-in for PX4's header of this name, as far as the module uses it. */
#pragma once
namespace uORB {
template <typename T> class Publication {
public:
	explicit Publication(T *to) : _to(to) {}
	bool publish(const T &data) { *_to = data; return true; }
private:
	T *_to;
};
}
