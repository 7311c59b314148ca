"""A script with a package that exists nowhere."""

import no_such_package

no_such_package.train()
