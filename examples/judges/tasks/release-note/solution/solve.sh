#!/bin/bash
cat >NOTE.md <<'END'
There is a dark theme, which you can switch on in the settings.
Exports start at once; large ones such as the yearly report take much less time.
END
