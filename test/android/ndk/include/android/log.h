// cpuinfo includes Android's header of this name, and takes nothing from it where it logs to standard output.
#pragma once
