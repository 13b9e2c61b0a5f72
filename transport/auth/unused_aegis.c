// libaegis picks the fastest code for each of its ciphers when a program starts. Troupe uses
// AEGIS-128X2 and AEGIS-128L (record_cipher.cpp): the others are not linked, which would add 0.7 MB to each program.

int aegis128x4_pick_best_implementation(void) { return 0; }
int aegis256_pick_best_implementation(void) { return 0; }
int aegis256x2_pick_best_implementation(void) { return 0; }
int aegis256x4_pick_best_implementation(void) { return 0; }
