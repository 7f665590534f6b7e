/* sort N CUT: merge sort of N numbers, a task for each half above depth CUT; tells the size of each task. */
#include "program.h"

static void merge_sort(int *a, int *b, int n, int depth) {
    int half = n / 2, i = 0, j = half;
    if (n < 2) return;
    if (depth < cut) {
        TASK(firstprivate(a, b, half, depth)) {
            count_task();
            advisor_size(half);
            merge_sort(a, b, half, depth + 1);
        }
        TASK(firstprivate(a, b, n, half, depth)) {
            count_task();
            advisor_size(n - half);
            merge_sort(a + half, b + half, n - half, depth + 1);
        }
#pragma omp taskwait
    } else {
        merge_sort(a, b, half, depth);
        merge_sort(a + half, b + half, n - half, depth);
    }
    for (int k = 0; k < n; k++) b[k] = j >= n || (i < half && a[i] <= a[j]) ? a[i++] : a[j++];
    memcpy(a, b, (size_t)n * sizeof *a);
}

static long run(int n) {
    int *a = malloc((size_t)n * sizeof *a), *b = malloc((size_t)n * sizeof *b);
    unsigned seed = 1;
    long sorted = 1;
    for (int i = 0; i < n; i++) a[i] = (int)((seed = seed * 1664525u + 1013904223u) >> 8);
    merge_sort(a, b, n, 0);
    for (int i = 1; i < n; i++) sorted &= a[i - 1] <= a[i];
    free(a);
    free(b);
    return sorted;
}

static long expected(int n) { return n >= 0; }
