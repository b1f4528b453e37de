"""Every case that is known not to agree with the CPU, with the reason. They are run, and one that passes is reported
as a failure, so that the list can only shrink.

A key is `database name dtype check`; `*` stands for any dtype or any check (each of which must then fail).
"""

EXCEPTIONS = {
}
