package main

import "C" // namespaces.c is linked in
