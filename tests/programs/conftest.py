"""Programs of the classic stack: `import tvm` gives smelt in this folder."""

import smelt.compat

smelt.compat.as_tvm()
