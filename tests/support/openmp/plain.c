/* plain: the header in a program that knows nothing of OpenMP. */
#include "advisor_task.h"

#include <stdio.h>

int main(void) {
    for (int i = 0; i < 1000; i++) {
        advisor_size(i);
        advisor_parameter("i", i);
    }
    puts("unharmed");
    return 0;
}
