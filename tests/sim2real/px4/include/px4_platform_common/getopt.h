/* A stand-in for PX4's header of this name, as far as the module uses it. */
#pragma once
